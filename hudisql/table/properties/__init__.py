"""`hoodie.properties`: new tables, changed configuration, table versions."""
