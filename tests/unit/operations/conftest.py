from tests.installed import home, write_spec

__all__ = ["home", "write_spec"]
