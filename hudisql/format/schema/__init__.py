"""Table schemas: Avro, Arrow and Spark types, meta columns, type widening."""
