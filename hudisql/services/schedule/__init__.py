"""Which services are due, and running them."""
