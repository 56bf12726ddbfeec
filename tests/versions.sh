#!/usr/bin/env bash
# The quick suite on other versions of what attnx stands on; prints the table of docs/compatibility.md.
#
#     tests/versions.sh                             # all rows
#     tests/versions.sh 4.57                        # those with this in their name
#     tests/versions.sh 4.57 tests/hooks           # a part of the tests
#     ENVIRONMENTS=DIR tests/versions.sh            # environments are kept there, and used again
#     ENVIRONMENTS=DIR tests/versions.sh 4.57 none  # they are only made
#
#     GPU_BUILDS=yes tests/versions.sh 3.13         # builds of torch for GPUs, too, where there are no others
#
# Each row gets an environment of its own. What cannot be had here is a row that says so. torch is taken in builds for
# processors alone unless others are asked for: one for GPUs pulls gigabytes of other packages.
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
chosen=${1:-}
parts=("${@:2}")
work=${ENVIRONMENTS:-$(mktemp -d)}
[ -n "${ENVIRONMENTS:-}" ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work"
# Libraries that go with transformers are chosen by it.
grep -vE '^(torch|transformers|tokenizers|huggingface_hub|datasets|fsspec|gradio)==' constraints.txt > "$work/constraints.txt"

row() { echo "| $1 | $2 | $3 | $4 | ${5:-} | ${6:-} | ${7:-} |"; }

# How many tests ended so, by pytest's last line.
count() { grep -oE "[0-9]+ ($2)" <<< "$1" | awk '{sum += $1} END {print sum + 0}'; }

# Told by what a build needs, before anything is downloaded.
has_torch() {
    local found
    found=$("$1" -m pip install --dry-run --no-deps --ignore-installed --quiet --report - "torch==$2" 2> /dev/null) || return 1
    [ -n "${GPU_BUILDS:-}" ] || ! grep -q '"nvidia-\|"cuda-' <<< "$found"
}

make() {
    local python=$1 torch=$2 transformers=$3 place=$4
    local wanted="transformers==$transformers.*"
    [ "$transformers" = newest ] && wanted=transformers
    [ -e "$place/made" ] && return
    "$python" -m venv "$place" &&
        "$place/bin/pip" install --quiet -c "$work/constraints.txt" "torch==$torch" "$wanted" -e ".[test]" > "$place.log" 2>&1 &&
        touch "$place/made"
}

try() {
    local python=python$1 torch=$2 transformers=$3 place="$work/$1-$2-$3" found
    "$python" --version > /dev/null 2>&1 || { row "$@" "not run: no Python $1 here"; return; }
    has_torch "$python" "$torch" || { row "$@" "not run: no build of torch $torch for processors alone and Python $1 here"; return; }
    make "$python" "$torch" "$transformers" "$place" ||
        { row "$@" "cannot be installed: $(grep -m 1 -i error "$place.log" | cut -c1-100)"; return; }
    [ "${parts[0]:-}" = none ] && return
    found=$("$place/bin/python" -m pytest -q --no-cov -p no:cacheprovider -m "not slow" "${parts[@]}" 2> /dev/null | tee "$place.out" | tail -n 1)
    grep -E '^(FAILED|ERROR)' "$place.out" >&2
    row "$1" "$("$place/bin/python" -c 'import torch; print(torch.__version__)')" \
        "$("$place/bin/python" -c 'import transformers; print(transformers.__version__)')" "${parts[*]:-the quick suite}" \
        "$(count "$found" passed)" "$(count "$found" skipped)" "$(count "$found" "failed|error")"
}

echo "| Python | torch | transformers | tried | passed | skipped | failed |"
echo "|---|---|---|---|---|---|---|"
for one in "${rows[@]}"; do
    # shellcheck disable=SC2086
    case "$one" in *"$chosen"*) try $one ;; esac
done
