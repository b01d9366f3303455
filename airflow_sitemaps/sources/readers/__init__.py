"""Readers of rows as Arrow record batches, through the driver's own Arrow interface or a cursor."""
