"""Tables between `<!-- NAME -->` and `<!-- /NAME -->` of a page, written by the runs they show."""


def fill(page, tables, name="the page"):
    """`page` with each table of `tables`, a dict by mark, between its marks.

    Raises:
        ValueError: if marks are missing.
    """
    for mark, table in tables.items():
        start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
        before, _, rest = page.partition(start)
        if end not in rest:
            raise ValueError(f"{name} has no {start} ... {end} to put the table between")
        page = f"{before}{start}\n{table}\n{end}{rest.partition(end)[2]}"
    return page
