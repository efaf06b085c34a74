"""Record keys and partition paths of rows, by Hudi's key generators."""
