"""What `make docs` adds to the pages in docs/: links, the reference, notebooks and drawings."""
