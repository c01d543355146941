#!/usr/bin/env bash
# HAProxy and nginx before two servers with the demo model, as configured here; the YAML is read, the Python compiled.
# tests/server/replicas/run.sh [QRUN]; QRUN: target/release/qrun by default.
set -euo pipefail
cd "$(dirname "$0")/../../.."
qrun=${1:-target/release/qrun}
here=tests/server/replicas
if python3 -c "import yaml" 2> /dev/null; then
    for file in kubernetes gateway; do
        python3 -c "import sys, yaml; sys.exit(not all(d['kind'] for d in yaml.safe_load_all(open(sys.argv[1]))))" "$here/$file.yaml"
    done
else
    echo "no PyYAML: the YAML was not read"
fi
python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$here/ray_serve.py"
for proxy in haproxy nginx; do
    # Debian has them where users' PATH does not lead.
    if PATH="$PATH:/usr/sbin" command -v "$proxy" > /dev/null; then
        PATH="$PATH:/usr/sbin" python3 "$here/check.py" "$proxy" "$qrun"
    else
        echo "no $proxy: not run"
    fi
done
