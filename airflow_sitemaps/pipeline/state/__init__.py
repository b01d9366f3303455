"""Keep the private state: manifests, plans, receipts, reports, and who owns them."""
