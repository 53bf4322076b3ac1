#!/bin/sh
# default flags: a checkpoint of one token serves another text: qwen35 (hybrid)
# Made by cachesim 0.1.0 from the scenario one-token-qwen35, expected numbers: llama_cpp@b11549.
# Expected: request 2: logits at position 7 depend on wrong K/V rows or states
# LLAMA_SERVER=build/bin/llama-server sh FILE
# Exit status: 1 the fault shows, 0 it does not, 2 no server.
set -u
TOLERANCE=${TOLERANCE:-0.001}   # differences of log-probabilities up to this are rounding
SEED=${SEED:-0}             # another number renames all tokens: use one if the server has seen this case before
FIRST=${FIRST:-101} SIZE=219          # tokens that are used: FIRST .. FIRST+SIZE-1
WITHIN=${WITHIN:-60}        # seconds for one request
DELAY=${DELAY:-0.05}        # seconds for an iteration of the server, between requests that are sent together
LLAMA_SERVER=${LLAMA_SERVER:-llama-server}
PYTHON=${PYTHON:-python3}   # with the package llm-cachesim[gguf], to write the models
MODELS=${MODELS:-.}         # folder of the models
PORT=${PORT:-$((20000 + $$ % 20000))}
URL=http://127.0.0.1:$PORT

for tool in curl jq; do
  command -v $tool >/dev/null || { echo "$tool is needed" >&2; exit 2; }
done
DIR=$(mktemp -d) || exit 2
PID=
finish() { [ -n "$PID" ] && kill $PID 2>/dev/null; wait; rm -rf "$DIR"; }
trap finish EXIT
trap 'exit 130' INT TERM HUP
alive() { [ "$(curl -s -m 5 -o /dev/null -w '%{http_code}' "$URL/health")" = 200 ]; }
MODEL=tiny-qwen35-GGGAGGGA.gguf
model() {  # model LAYERS FILE: write a tiny model with random weights, unless it is there
  [ -e "$MODELS/$2" ] || "$PYTHON" -m cachesim.live.llama_server.gguf_models "$1" "$MODELS/$2" ||
    { echo "no model $MODELS/$2: pip install 'llm-cachesim[gguf]'" >&2; exit 2; }
}
ours() { curl -s -m 5 "$URL/props" | grep -q "cachesim-$$"; }
start() {  # start FLAGS...
  mkdir -p "$DIR/slots"
  "$LLAMA_SERVER" -m "$MODELS/$MODEL" --host 127.0.0.1 --port "$PORT" --alias "cachesim-$$" \
    --slot-save-path "$DIR/slots/" -t 1 -tb 1 -fa off -ctk f32 -ctv f32 --no-warmup -fit off -lv 5 "$@" >"$DIR/log" 2>&1 &
  PID=$!
  tries=0
  until alive && ours; do
    tries=$((tries + 1))
    if ! kill -0 $PID 2>/dev/null && grep -q "couldn't bind" "$DIR/log"; then
      PORT=$((PORT + 1)); URL=http://127.0.0.1:$PORT; start "$@"; return
    fi
    if ! kill -0 $PID 2>/dev/null || [ $tries -gt 300 ]; then
      echo "the server does not start:" >&2; tail -n 3 "$DIR/log" >&2; exit 2
    fi
    sleep 0.2
  done
}
stop() { [ -z "$PID" ] || { kill $PID 2>/dev/null; wait $PID 2>/dev/null; PID=; } }
model qwen35 "$MODEL"
start -c 1024 -np 1

# The words of the conversation in tokens; answers take the place of theirs
jq -c --argjson seed "$SEED" --argjson first "$FIRST" --argjson size "$SIZE" 'with_entries(
  if .key | IN(empty) then . else .value |= map(if . < 101 then . else $first + (. - 101 + $seed) % $size end) end)' >"$DIR/words" <<'END' || exit 2
{"P": [182, 124, 298, 140, 168],
  "Q": [140, 267, 191, 201, 198, 188, 164, 222, 106, 247],
  "n": [314, 180, 214, 240, 215]}
END

body() {  # body NUMBER PROMPT FIELDS: prepare a request; its prompt is a sum of words
  jq -c --argjson fields "$3" '{prompt: ('"$2"')} + $fields + {"temperature": 0, "ignore_eos": true, "n_probs": 4, "return_tokens": true}' "$DIR/words" >"$DIR/$1.body"
}
send() {  # send NUMBER: ask, and keep the answer and its HTTP status (000 = none came)
  curl -s -m "$WITHIN" -H 'Content-Type: application/json' -d @"$DIR/$1.body" \
    -o "$DIR/$1.reply" -w '%{http_code}' "$URL/completion" >"$DIR/$1.status"
  [ -s "$DIR/$1.reply" ] || echo null >"$DIR/$1.reply"
}
hear() {  # hear NUMBER CHANGE: the generated tokens ($t, one list for each completion) become words
  jq -c --slurpfile reply "$DIR/$1.reply" '($reply[0] | if type == "array" then . else [.] end |
    map(.tokens? // [])) as $t | '"$2" "$DIR/words" >"$DIR/new" && mv "$DIR/new" "$DIR/words"
}

# The history, warm
body 0 '.P' '{"n_predict": 3}'
send 0
body 1 '.Q' '{"n_predict": 3}'
send 1
body 2 '.Q[0:3] + .n' '{"n_predict": 3}'
send 2

# Every prompt, cold
cold_server() { stop; start -c 1024 -np 1 --cache-ram 0 --ctx-checkpoints 0 -lv 1; }
cold_server
echo 'request  cache_n (expected)  evaluated (expected)  answer'
shown=0
compare() {  # compare NUMBER CACHE_N EVALUATED STATUS: ask the same cold, and print both; what was expected follows
  was=$(cat "$DIR/$1.status")
  [ "$was" = cancelled ] && { echo "$1  (disconnected)"; return; }
  cp "$DIR/$1.reply" "$DIR/warm"
  jq -c '{prompt, n_predict, n_keep, n_discard, max_tokens} + {"cache_prompt": false, "id_slot": 0, "temperature": 0, "ignore_eos": true, "n_probs": 4, "return_tokens": true} | with_entries(select(.value != null))' "$DIR/$1.body" >"$DIR/cold.body"
  send cold
  if [ "$(cat "$DIR/cold.status")" = 000 ] && ! alive; then
    echo "$1  - ($2)  - ($3)  the server has ended"; shown=1
    cold_server; return
  fi
  jq -nr --arg n "$1" --arg expected "$2 $3 $4" --argjson tolerance "$TOLERANCE" --arg was "$was" \
    --arg is "$(cat "$DIR/cold.status")" --slurpfile warm "$DIR/warm" --slurpfile cold "$DIR/cold.reply" '
    def places: [.completion_probabilities[]? | (.top_logprobs // .top_probs // [])
                 | map({(.id | tostring): .logprob}) | add // {}];
    def versus($b): . as $a | [$a.tokens, $b.tokens] as [$s, $t] | ($a | places) as $p | ($b | places) as $q
      | ([range(0; [$s, $t | length] | min) | select($s[.] != $t[.])][0]) as $at
      | [range(0; [$p, $q | length] + [($at // 1000000) + 1] | min) as $i
         | $p[$i] | keys[] | select($q[$i][.]) | $p[$i][.] - $q[$i][.] | fabs] as $gaps
      | ($gaps | max) as $far
      | ($at == null or ([($q[$at] // {} | keys[]) as $one | $p[$at] // {} | has($one)] | any)) as $near
      | if $far != null and $far > $tolerance then "DIFFERS from a cold run: log-probabilities by \($far)"
          + (if $at != null then ", token \($at) is \($s[$at]), not \($t[$at])" else "" end)
        elif $at != null and ($near | not) then "DIFFERS from a cold run: token \($at) is \($s[$at]), not \($t[$at])"
        elif ($s | length) != ($t | length) then "DIFFERS from a cold run: \($s | length) tokens, not \($t | length)"
        else "same as cold" end;
    ($expected | split(" ")) as [$cached, $evaluated, $status]
    | ($warm[0] | if type == "array" then . else [.] end) as $all
    | (if $was == $is and $is == "200" then ([$all[] | versus($cold[0])] | (map(select(startswith("DIFF"))) + .)[0])
       elif $is != "200" then "cold: HTTP \($is), warm: \($was)"
       elif $was == "000" then "DIFFERS from a cold run: NO ANSWER"
       else "DIFFERS from a cold run: HTTP \($was) \($warm[0].error.message? // "")" end) as $said
    | "\($n)  \($all[0].timings.cache_n? // "-") (\($cached))  "
      + "\($all[0].timings.prompt_n? // "-") (\($evaluated))  \($said)"
      + (if $was == "200" then "  tokens: \($all[0].tokens | map(tostring) | .[:8] | join(" "))" else "" end)
  ' >"$DIR/line" || { echo "$1  an answer that cannot be read"; return; }
  cat "$DIR/line"
  grep -q DIFFERS "$DIR/line" && shown=1
}

compare 0 0 5 200
compare 1 0 10 200
compare 2 1 7 200

if [ $shown = 1 ]; then echo 'THE FAULT SHOWS'; exit 1; fi
echo 'the fault does not show'
