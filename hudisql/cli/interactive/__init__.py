"""The shell on a terminal: its prompt, completion, pager, and Spark's start behind the prompt."""
