"""Tables: reading, filtering, mapping, regrouping and writing them."""
