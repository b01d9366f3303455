"""A stylesheet with which a browser shows a sitemap as a table. It is for people; no crawler reads it.

Browsers are about to remove XSLT. A browser that does not apply the stylesheet shows the XML. The stylesheet loads no
script, font or image.
"""

from __future__ import annotations

from typing import Final

from airflow_sitemaps.protocol.urlset import NAMESPACE, NAMESPACES

FILE_NAME: Final = "sitemap.xsl"
CONTENT_TYPE: Final = "text/xsl"

_CSS: Final = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b1f24}"
    "h1{font-size:1.25rem}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-bottom:1px solid #d8dee4;vertical-align:top}"
    "td:first-child{word-break:break-all}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}a{color:#79b8ff}th,td{border-color:#30363d}}"
)

_HEAD: Final = """<xsl:template match="/">
<html lang="en"><head><meta name="robots" content="noindex"/><title>Sitemap</title><style>{css}</style></head>
<body><xsl:apply-templates/></body></html>
</xsl:template>
"""

_INDEX: Final = """<xsl:template match="s:sitemapindex">
<h1>Sitemap index: <xsl:value-of select="count(s:sitemap)"/> sitemaps</h1>
<table><tr><th>Sitemap</th><th>Last modified</th></tr>
<xsl:for-each select="s:sitemap"><tr>
<td><a href="{s:loc}"><xsl:value-of select="s:loc"/></a></td><td><xsl:value-of select="s:lastmod"/></td>
</tr></xsl:for-each></table>
</xsl:template>
"""

_URLSET: Final = """<xsl:template match="s:urlset">
<h1>Sitemap: <xsl:value-of select="count(s:url)"/> URLs</h1>
<table><tr><th>URL</th><th>Last modified</th><th class="n">Images</th><th class="n">Videos</th><th class="n">Languages</th></tr>
<xsl:for-each select="s:url"><tr>
<td><a href="{s:loc}"><xsl:value-of select="s:loc"/></a></td><td><xsl:value-of select="s:lastmod"/></td>
<td class="n"><xsl:value-of select="count(image:image)"/></td>
<td class="n"><xsl:value-of select="count(video:video)"/></td>
<td class="n"><xsl:value-of select="count(xhtml:link)"/></td>
</tr></xsl:for-each></table>
</xsl:template>
"""


def render() -> bytes:
    """Return the stylesheet, which always has the same bytes."""
    prefixes = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"'
        f' xmlns:s="{NAMESPACE}"{prefixes} exclude-result-prefixes="s {" ".join(NAMESPACES)}">\n'
        '<xsl:output method="html" encoding="UTF-8" doctype-system="about:legacy-compat"/>\n'
        f"{_HEAD.replace('{css}', _CSS)}{_INDEX}{_URLSET}</xsl:stylesheet>\n"
    ).encode()
