// npm's sitemap over the same rows: node sitemap.mjs '{"host": …, "user": …, "database": …, "rows": …, "folder": …}'
// As in its README: a SitemapAndIndexStream whose streams are piped into gzip and a file. "buffered" puts 256 KB of
// buffer before gzip, which else is called once for each element.
import { createWriteStream, mkdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import pg from 'pg'
import QueryStream from 'pg-query-stream'
import { SitemapAndIndexStream, SitemapStream } from 'sitemap'

const how = JSON.parse(process.argv[2])
mkdirSync(how.folder, { recursive: true })

class Buffer256 extends Transform {
  parts = []
  size = 0
  _transform (chunk, encoding, done) {
    this.parts.push(chunk)
    this.size += chunk.length
    if (this.size >= 262144) this.release()
    done()
  }

  _flush (done) {
    this.release()
    done()
  }

  release () {
    if (this.parts.length) this.push(Buffer.concat(this.parts))
    this.parts = []
    this.size = 0
  }
}

const files = []
const sitemaps = new SitemapAndIndexStream({
  limit: 50000,
  getSitemapStream: (number) => {
    const name = `sitemap-${number}.xml.gz`
    const stream = new SitemapStream({ hostname: 'https://www.example.com' })
    const file = createWriteStream(resolve(how.folder, name))
    let piped = stream
    if (how.buffered) piped = piped.pipe(new Buffer256())
    piped.pipe(createGzip()).pipe(file)
    files.push(new Promise((resolve, reject) => file.on('finish', resolve).on('error', reject)))
    return [new URL(name, 'https://www.example.com/').toString(), stream, file]
  }
})

const client = new pg.Client({ host: how.host, user: how.user, database: how.database })
await client.connect()
const began = performance.now()
const cpu = process.cpuUsage()
let urls = 0
const rows = client.query(new QueryStream(
  'SELECT loc, lastmod, changefreq, priority FROM pages ORDER BY id LIMIT $1', [how.rows], { batchSize: 10000 }))
const items = new Transform({
  objectMode: true,
  transform (row, encoding, done) {
    urls += 1
    done(null, { url: row.loc, lastmod: row.lastmod.toISOString(), changefreq: row.changefreq, priority: row.priority })
  }
})
await pipeline(rows, items, sitemaps, createGzip(), createWriteStream(resolve(how.folder, 'sitemap-index.xml.gz')))
await Promise.all(files)
const peak = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024
const used = process.cpuUsage(cpu)
const wall = (performance.now() - began) / 1000
await client.end()
console.log(JSON.stringify({
  cpu_s: (used.user + used.system) / 1e6, wall_s: wall, peak_mb: peak(), urls
}))
