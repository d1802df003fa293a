#!/usr/bin/env bash
# From nothing to a pretrained encoder on this machine: installs what is missing, builds, makes a tokenizer
# and shards of source code, trains, is stopped in the middle, resumes, and shows what came out.
#   scripts/quickstart.sh                    trains on Python's standard library
#   scripts/quickstart.sh --input DIR        trains on your own source code or text
#   scripts/quickstart.sh --set KEY=VALUE    overrides the recipe (recipes/quickstart.toml); may be repeated
# Everything is written into a new folder runs/quickstart/DATE-TIME. Ctrl-C saves and stops; the script says
# how to go on. Then the encoder learns a task made from the same code: does this documentation belong to this
# function? In the end the pretrained model guesses ten pieces of held-out code that it is not shown. The exit
# status is not 0 unless the model predicts held-out code at least 1 nat better than how often each piece
# occurs, and its accuracy on held-out pairs is three standard errors above the majority class.
set -euo pipefail

required_gain=1
recipe=recipes/quickstart.toml
program=build/release/cli/comera
input=""
settings=()
child=""
train=()

fail() {
  printf '\nquickstart: error: %s\n' "$*" >&2
  exit 1
}

while (($# > 0)); do
  case "$1" in
    --input | --set)
      (($# > 1)) || fail "$1 needs a value"
      if [[ $1 == --set ]]; then
        settings+=(--set "$2")
      else
        [[ -z $input ]] || fail "--input can be given once; give a folder that holds all"
        input=$2
      fi
      shift
      ;;
    -h | --help)
      sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) fail "'$1' is not an option; see --help" ;;
  esac
  shift
done

[[ -z $input ]] || input=$(realpath "$input")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Stages, and how long each took.
stage_names=()
stage_seconds=()
stage_start=0
end_stage() { stage_seconds+=($((SECONDS - stage_start))); }
stage() {
  ((${#stage_names[@]} == 0)) || end_stage
  stage_names+=("$1")
  stage_start=$SECONDS
  printf '\n== %s\n' "$1"
}
print_times() {
  local i total=0
  printf '\nstage                                        minutes\n'
  for i in "${!stage_names[@]}"; do
    printf '%-44s %d:%02d\n' "${stage_names[i]}" $((stage_seconds[i] / 60)) $((stage_seconds[i] % 60))
    total=$((total + stage_seconds[i]))
  done
  printf '%-44s %d:%02d\n' "in all" $((total / 60)) $((total % 60))
}

# Prints what was run, with quotes where a shell would need them.
print_command() {
  printf '%q ' "$@"
  printf '\n'
}

# Training has a process group of its own, so that Ctrl-C reaches it once, through stop().
start_training() {
  set -m
  "$@" &
  child=$!
  set +m
}
wait_for_training() {
  local status=0
  wait "$child" || status=$?
  child=""
  return "$status"
}
# shellcheck disable=SC2317 # called by the trap
stop() {
  trap - INT TERM
  printf '\n'
  if [[ -n $child ]]; then
    kill -TERM "$child" 2> /dev/null || true
    wait "$child" || true
    if ((${#train[@]} > 0)); then
      printf 'go on, in %s, with:\n  ' "$PWD"
      print_command "${train[@]}" --resume auto
    else
      printf 'the same command goes on with the build\n'
    fi
  fi
  exit 130
}
trap stop INT TERM

# The last value of a key in metrics.jsonl, and of the step.
last_value() { sed -n "s/.*\"$1\":\([-+.eE0-9]*\).*/\1/p" "$metrics" 2> /dev/null | tail -n 1 || true; }

stage "packages"
scripts/setup.sh
if [[ -z $input ]]; then
  find_library() { find /usr/lib -maxdepth 1 -type d -name 'python3.[0-9]*' | sort -V | tail -n 1; }
  input=$(find_library)
  if [[ -z $input || ! -e $input/argparse.py || ! -e $input/turtle.py ]]; then
    scripts/setup.sh --also libpython3-stdlib # only its files: nothing of it is run
    input=$(find_library)
  fi
fi
[[ -e $input ]] || fail "$input: no such folder"

# Compiles in a dozen lines, with all output in a log.
build() {
  local log=$1 minutes total="" done_files="" shown=0 percent=0 started=$SECONDS
  minutes=$(((26 + $(nproc) - 1) / $(nproc)))
  printf 'compiling the program, the first time about %d minutes on %d cores; all output goes to %s\n' "$minutes" "$(nproc)" "$log"
  set -m # as for training: Ctrl-C reaches it through stop()
  cmake --build --preset release --target comera >> "$log" 2>&1 &
  child=$!
  set +m
  while kill -0 "$child" 2> /dev/null; do
    sleep 1
    # Ninja's "[12/345]", make's "[ 12%]".
    IFS=/ read -r done_files total < <(grep -o '^\[[0-9]*/[0-9]*\]' "$log" | tail -n 1 | tr -d '[]') || true
    if [[ -n $total ]]; then
      percent=$((100 * done_files / total))
    else
      percent=$(grep -o '^\[ *[0-9]*%\]' "$log" | tail -n 1 | tr -dc '0-9' || true)
      percent=${percent:-0}
    fi
    if ((percent >= shown + 10)); then
      shown=$((percent / 10 * 10))
      printf '  %3d %%, %d:%02d min\n' "$shown" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
    fi
  done
  local status=0
  wait "$child" || status=$?
  child=""
  return "$status"
}

stage "build"
backends=()
if [[ ! -e build/release/CMakeCache.txt && ! -e /dev/nvidiactl && ! -e /dev/dxg ]] && command -v nvcc /usr/local/cuda/bin/nvcc > /dev/null; then
  backends=(-DCOMERA_CUDA=OFF)
  echo "without the CUDA backend, which takes minutes to compile: there is no GPU here; later: cmake --preset release -DCOMERA_CUDA=ON"
fi
build_log=build/quickstart.log
mkdir -p build
if ! { cmake --preset release ${backends[@]+"${backends[@]}"} > "$build_log" 2>&1 && build "$build_log"; }; then
  tail -n 20 "$build_log" >&2
  fail "the build did not succeed; all of its output is in $PWD/$build_log"
fi
"$program" --version

folder=runs/quickstart/$(date +%Y%m%d-%H%M%S)
mkdir -p runs/quickstart
mkdir "$folder"
metrics=$folder/run/metrics.jsonl
train=("$program" pretrain "$recipe" --input "$input" --output "$folder/run" ${settings[@]+"${settings[@]}"})

stage "tokenizer, data, half of the training"
cat << 'TEXT'
The model learns to fill in pieces of code that are hidden from it. How to read the numbers:
  loss      how surprised the model is by the hidden pieces, in nats: the lower, the better. 'held-out' is
            measured on files that it never learns from
  uniform   the loss of guessing every piece of the vocabulary alike: where a new model begins
  unigram   the loss of guessing each piece as often as it occurs: what a model has to beat to know more than counts
  accuracy  the share of hidden pieces whose first guess is right

TEXT
print_command "${train[@]}"
start_training "${train[@]}"
steps=""
while kill -0 "$child" 2> /dev/null; do
  if [[ -z $steps && -s $folder/run/recipe.toml ]]; then
    steps=$(awk '/^steps *=/ {sum += $3} END {print sum + 0}' "$folder/run/recipe.toml")
  fi
  step=$(last_value step)
  if [[ -n $steps && $((2 * ${step:-0})) -ge $steps ]]; then
    printf '\nstopping it at about half of the %s steps with SIGTERM\n' "$steps"
    kill -TERM "$child" 2> /dev/null || true
    break
  fi
  sleep 0.2
done
wait_for_training || fail "training ended before it was stopped; see its message above"

stage "training, resumed"
print_command "$program" resume "$folder/run"
start_training "$program" resume "$folder/run"
wait_for_training || fail "the resumed training did not succeed; see its message above"

stage "inspect"
checkpoint=$folder/run/checkpoints/$(< "$folder/run/checkpoints/latest")
"$program" inspect "$checkpoint" --ranks
"$program" inspect "$folder/run" --plot "$folder/run/training.svg"

stage "task: documentation and function"
task_output=$folder/task
if "$program" pairs --input "$input" --output "$folder/pairs" --copies 4 --held-out 0.2 2> "$folder/pairs.log"; then
  tune=("$program" finetune recipes/function_pairs.toml --from "$folder/run" --output "$task_output"
    --set "task.train=$folder/pairs/train.jsonl" --set "task.validation=$folder/pairs/validation.jsonl")
  print_command "${tune[@]}"
  train=("${tune[@]}") # what stop() tells to go on with
  start_training "${tune[@]}"
  wait_for_training || fail "fine-tuning did not succeed; see its message above"
  # Of the last model: the best one was chosen by these very examples.
  scores=$("$program" eval "$task_output/checkpoints/$(< "$task_output/checkpoints/latest")" --json 2> /dev/null)
elif grep -q 'but a task needs at least' "$folder/pairs.log"; then
  printf 'left out: '
  cat "$folder/pairs.log"
  scores=""
else
  fail "$(cat "$folder/pairs.log")"
fi

stage "guesses: pieces of held-out code"
cat << 'TEXT'
Ten pieces from inside lines of held-out code. Easy ones, such as line ends and brackets, are not asked for, so
that fewer are right than the masked accuracy says.
TEXT
fill=("$program" fill-mask "$folder/run" --held-out "$folder/run/data/shards" --examples 10 --top 3)
print_command "${fill[@]}"
"${fill[@]}"

stage "report"
runs=("$folder/run")
[[ ! -e $task_output/recipe.toml ]] || runs+=("$task_output")
"$program" report "${runs[@]}" --output "$folder/report.html" --overwrite
end_stage
print_times

loss=$(last_value validation_loss)
unigram=$(last_value unigram_loss)
[[ -n $loss && -n $unigram ]] || fail "$metrics has no held-out loss"
gain=$(awk -v a="$unigram" -v b="$loss" 'BEGIN {printf "%.3f", a - b}')

cat << TEXT

Open $PWD/$folder/report.html in a browser: curves, sizes and scores.

All of it is in $folder:
  report.html               the report
  run/tokenizer.model       the tokenizer (SentencePiece)
  run/data/shards/          token ids (HDF5)
  run/recipe.toml           the recipe with every key
  run/metrics.jsonl         one line for each logging interval and evaluation
  run/training.svg          loss, size and ranks over the steps
  run/best.h5               the checkpoint with the lowest held-out loss; best-phase-0.h5: that of the first phase
  run/checkpoints/          the newest checkpoints (HDF5)
  pairs/, task/             documentation and functions, and the encoder that was fine-tuned on them

The commands are $PWD/build/release/cli/comera: export PATH="\$PWD/build/release/cli:\$PATH" lets you leave out the folder.

What to try next:
  your own code    scripts/quickstart.sh --input ~/src
  longer training  scripts/quickstart.sh --set phase.0.steps=2000
  learning rates   $program pretrain $recipe --find-rate \\
                   --tokenizer $folder/run/tokenizer.model --data $folder/run/data/shards
  dense baseline   scripts/quickstart.sh --set tensorized.enabled=false
  how it shrank    docs/guide/rank-adaptation.md
  how fast it is   $program bench step --checkpoint $folder/run
  use it           $program fill-mask $folder/run 'for i [MASK] range(10):'
                   $program export $folder/run --to exported
  larger models    $program inspect recipes/codebert_base.toml --vocabulary 50265
  every key        docs/reference/recipes.md
TEXT

awk -v gain="$gain" -v least="$required_gain" 'BEGIN {exit !(gain >= least)}' ||
  fail "the held-out loss is $loss and the unigram baseline $unigram: it has to be at least $required_gain nats lower; look for better rates (docs/lab/learning.md) or try another seed (--set run.seed=...)"
printf '\nquickstart: the held-out loss is %s nats below the unigram baseline\n' "$gain"

if [[ -n $scores ]]; then
  score() { sed -n "s/.*\"$1\":\([-+.eE0-9]*\).*/\1/p" <<< "$scores"; }
  accuracy=$(score accuracy) majority=$(score majority) error=$(score standard_error)
  LC_ALL=C printf 'quickstart: documentation and function: accuracy %.3f ± %.3f (standard error) on %s held-out pairs, majority class %.3f\n' \
    "$accuracy" "$error" "$(score examples)" "$majority"
  awk -v a="$accuracy" -v m="$majority" -v e="$error" 'BEGIN {exit !(a >= m + 3 * e)}' ||
    fail "that is less than three standard errors above the majority class; a larger corpus or longer pretraining helps"
fi
printf 'quickstart: done\n'
