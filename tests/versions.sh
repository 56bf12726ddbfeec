#!/usr/bin/env bash
# The quick suite on other versions of what attnx stands on; prints the table of docs/compatibility.md.
#
#     tests/versions.sh            # all rows
#     tests/versions.sh 4.57       # those with this in their name
#
# Each row gets an environment of its own. What cannot be had here is a row that says so. torch is taken in the pinned
# form unless its row names another: an open range pulls gigabytes of packages for GPUs.
set -uo pipefail
cd "$(dirname "$0")/.."

rows=(
    "3.11 2.13.0 4.53"
    "3.11 2.13.0 4.57"
    "3.11 2.13.0 5.0"
    "3.11 2.13.0 newest"
    "3.11 2.6.0 5.0"
    "3.12 2.13.0 newest"
    "3.13 2.13.0 newest"
)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
grep -vE '^(torch|transformers|tokenizers|huggingface_hub)==' constraints.txt > "$work/constraints.txt"

row() { echo "| $1 | $2 | $3 | $4 |"; }

# The CPU build of torch, or nothing: a build for GPUs is several gigabytes.
has_torch() {
    "$1" -m pip download --quiet --no-deps --dest "$work/torch" "torch==$2" > /dev/null 2>&1 || return 1
    local size
    size=$(du -sm "$work/torch" | cut -f1)
    rm -rf "$work/torch"
    [ "$size" -lt 400 ]
}

try() {
    local python=python$1 torch=$2 transformers=$3 place="$work/$1-$2-$3"
    command -v "$python" > /dev/null && "$python" --version > /dev/null 2>&1 || { row "$@" "no Python $1 here"; return; }
    has_torch "$python" "$torch" || { row "$@" "no build of torch $torch for processors and Python $1 here"; return; }
    "$python" -m venv "$place" || { row "$@" "no environment could be made"; return; }
    local wanted="transformers==$transformers.*"
    [ "$transformers" = newest ] && wanted=transformers
    "$place/bin/pip" install --quiet -c "$work/constraints.txt" "torch==$torch" "$wanted" -e ".[test]" > "$place.log" 2>&1 ||
        { row "$@" "cannot be installed: $(grep -m 1 -i error "$place.log" | cut -c1-100)"; return; }
    local found
    found=$("$place/bin/python" -m pytest -q --no-cov -p no:cacheprovider -m "not slow" 2> /dev/null | tee "$place.out" | tail -n 1)
    grep -E '^(FAILED|ERROR)' "$place.out" >&2
    row "$1" "$("$place/bin/python" -c 'import torch; print(torch.__version__)')" \
        "$("$place/bin/python" -c 'import transformers; print(transformers.__version__)')" "${found//=/}"
}

echo "| Python | torch | transformers | quick suite |"
echo "|---|---|---|---|"
for one in "${rows[@]}"; do
    # shellcheck disable=SC2086
    case "$one" in *"${1:-}"*) try $one ;; esac
done
