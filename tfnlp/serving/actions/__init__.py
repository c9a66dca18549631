"""What a module can do for a person: functions of rows of strings to dicts that JSON can hold."""
