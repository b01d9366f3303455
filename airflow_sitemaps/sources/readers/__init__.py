"""Readers of rows as Arrow record batches, by the driver's own Arrow interface or by a cursor."""
