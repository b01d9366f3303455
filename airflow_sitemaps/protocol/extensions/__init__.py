"""Image, video, news and hreflang extensions of an entry."""
