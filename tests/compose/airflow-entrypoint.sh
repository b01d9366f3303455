#!/usr/bin/env bash
# What the public image of Airflow does with its command: an Airflow command unless it is a shell or Python.
set -euo pipefail
case "${1:-}" in
bash | python | airflow) exec "$@" ;;
*) exec airflow "$@" ;;
esac
