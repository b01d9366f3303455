#!/usr/bin/env bash
# What the public image of PostgreSQL does with POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB.
set -euo pipefail
data=/var/lib/postgresql/data/cluster
as_postgres() { su postgres -s /bin/bash -c "PATH=$PATH $*"; }
chown postgres /var/lib/postgresql/data
if [ ! -e "$data/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" >/tmp/password
  chmod 644 /tmp/password
  as_postgres "initdb --pgdata=$data --username=$POSTGRES_USER --pwfile=/tmp/password --auth-host=scram-sha-256 --encoding=UTF8" >/dev/null
  echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
  as_postgres "pg_ctl --pgdata=$data --wait --options='-c listen_addresses= -k /tmp' start" >/dev/null
  [ "$POSTGRES_DB" = postgres ] || as_postgres "createdb --host=/tmp --username=$POSTGRES_USER $POSTGRES_DB"
  as_postgres "pg_ctl --pgdata=$data --wait stop" >/dev/null
fi
mkdir -p /var/run/postgresql && chown postgres /var/run/postgresql
exec su postgres -s /bin/bash -c "exec $(command -v postgres) -D $data -c listen_addresses='*'"
