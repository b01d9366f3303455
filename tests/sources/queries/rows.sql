SELECT url FROM {{ params.table }}
