"""Tables: read, filtered, mapped, regrouped and written."""
