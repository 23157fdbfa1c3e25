"""The command line: `tablepack COMMAND`, a module a command; each is imported when it is called.

Takes words of a shell.
Gives results on standard output, all else on standard error, an exit code.
May import everything: it is the top, beside `engine.api`.
"""
