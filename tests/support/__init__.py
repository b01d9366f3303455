"""Servers, fakes and factories that several test folders share."""
