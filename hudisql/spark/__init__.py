"""What hudisql needs of Spark and its JVM: the session, tasks and their errors, cached rows."""
