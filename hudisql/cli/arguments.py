"""Arguments of the command with a range, so that a bad value is refused before anything starts."""

from __future__ import annotations

from typing import Any, Final

import typer

HIGHEST_PORT: Final = 0xFFFF


def port_option(name: str, help_text: str) -> Any:
    """An option that takes a port."""
    return typer.Option(name, metavar="PORT", help=help_text, min=0, max=HIGHEST_PORT)


def address_option(name: str, help_text: str) -> Any:
    """An option that takes `HOST:PORT`, and gives the text."""
    return typer.Option(name, metavar="HOST:PORT", help=help_text, parser=_checked_address)


def brokers_option(name: str, help_text: str) -> Any:
    """An option that takes `HOST:PORT` several times between commas, each with or without its port."""
    return typer.Option(name, metavar="HOST:PORT", help=help_text, parser=_checked_brokers)


def _checked_address(text: str) -> str:
    _, separator, port = text.rpartition(":")
    if not separator or not _is_port(port):
        raise typer.BadParameter(f"'{text}' is not HOST:PORT with a port from 0 to {HIGHEST_PORT}")
    return text


def _checked_brokers(text: str) -> str:
    for address in text.split(","):
        if ":" in address:
            _checked_address(address)
    return text


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) <= HIGHEST_PORT
