"""The docs site's hook: what GitHub shows as a list is one for mkdocs, too."""

from scripts.site_hooks import with_lists_apart

PAGE = """Never deleted:
- the newest slice,
  which readers need
- source files

1. first
2. second

```
what a diff shows:
- a line
```"""


def test_a_list_below_a_paragraph_is_set_apart_and_code_stays() -> None:
    apart = PAGE.replace("Never deleted:\n", "Never deleted:\n\n")
    assert with_lists_apart(PAGE) == apart
    assert with_lists_apart(apart) == apart
