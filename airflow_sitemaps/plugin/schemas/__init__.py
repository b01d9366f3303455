"""Requests and responses of the API, for its OpenAPI description. The pages' TypeScript types are made from it."""
