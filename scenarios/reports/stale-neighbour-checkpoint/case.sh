#!/bin/sh
# default flags: a checkpoint that ends with an abandoned token is restored: qwen35 (hybrid)
# Made by cachesim 0.1.0 from the scenario neighbour-qwen35, expected numbers: llama_cpp@b11549.
# Expected: request 3: logits at position 11 depend on wrong K/V rows or states
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
{"X": [182, 124, 298, 140, 168, 223, 221, 132],
  "a": [140, 267, 191, 201],
  "b": [314, 180, 214, 240, 215],
  "c": [235, 280, 274, 307, 312, 176, 243, 304, 307, 292, 242, 298, 300, 267, 253, 159, 249, 179, 121, 305, 136, 222, 178, 252, 157, 236, 134, 294, 179, 226, 215, 144, 146, 285, 112, 171, 201, 152, 309, 286, 126, 307, 274, 275, 122, 254, 273, 183, 225, 163, 272, 218, 126, 316, 173, 173, 206, 287, 237, 196, 162, 236, 254, 178, 136, 298, 306, 118, 108, 228, 278, 145, 200, 106, 291, 157, 121, 112, 178, 268, 156, 227, 182, 170, 113, 252, 308, 136, 254, 240, 211, 250, 106, 235, 305, 264, 285, 277, 256, 249, 231, 192, 281, 122, 282, 260, 188, 130, 319, 266, 146, 110, 299, 278, 165, 142, 153, 202, 315, 268, 218, 245, 200, 301, 122, 177, 109, 105, 319, 297, 307, 170, 228, 250, 294, 234, 269, 171, 221, 282, 251, 167, 318, 106, 211, 186, 302, 260, 240, 231, 108, 195, 177, 111, 139, 192, 110, 154, 317, 176, 179, 159, 276, 208, 239, 261, 113, 248, 189, 319, 147, 115, 286, 229, 105, 267, 212, 296, 178, 155, 246, 177, 117, 185, 295, 236, 216, 235, 101, 210, 274, 118, 255, 169, 252, 306, 122, 267, 128, 130, 195, 211, 226, 232, 113, 182, 203, 257, 302, 306, 207, 294, 180, 145, 307, 161, 314, 137, 149, 130, 294, 230, 116, 114, 297, 246, 309, 298, 286, 188, 313, 212, 157, 106, 282, 208, 129, 199, 295, 188, 153, 101, 195, 101, 290, 148, 119, 271, 110, 154, 291, 266, 265, 276, 190, 260, 214, 274, 157, 126, 193, 250, 115, 145, 169, 193, 111, 178, 313, 117, 160, 272, 209, 151, 276, 294, 176, 212, 159, 226, 187, 271, 260, 290, 128, 272, 191, 165, 256, 236, 146, 268, 282, 241, 236, 224, 162, 276, 274, 258, 228, 170, 131, 127, 141, 299, 224, 300, 184, 109, 139, 134, 269, 269, 269, 235, 284, 287, 138, 158, 121, 162, 246, 182, 262, 219, 240, 267, 152, 286, 264, 279, 232, 206, 169, 124, 299, 213, 187, 307, 110, 241, 247, 248, 229, 171, 137, 258, 267, 228, 164, 109, 172, 160, 151, 135, 176, 121, 312, 187, 233, 317, 136, 275, 212, 178, 270, 295, 247, 149, 155, 135, 146, 112, 176, 245, 142, 144, 147, 192, 264, 109, 116, 136, 185, 244, 300, 114, 197, 113, 138, 294, 287, 145, 223, 104, 221, 314, 255, 247, 308, 161, 127, 116, 103, 155, 172, 163, 201, 214, 135, 151, 177, 280, 180, 175, 303, 117, 112, 145, 172, 181, 184, 195, 262, 152, 190, 122, 319, 185, 124, 228, 267, 312, 145, 120, 313, 277, 311, 307, 228, 160, 209, 288, 271, 103, 247, 149, 273, 222, 219, 229, 282, 186, 221, 302, 193, 218, 317, 126, 183, 267, 171, 185, 214, 145, 140, 152, 233, 226, 141, 195, 212, 156, 293, 251, 116, 158, 282, 273, 283, 250, 171, 114, 272, 110, 166, 142, 111, 114, 209, 258, 181, 223, 210, 269, 227, 144, 299, 140, 317, 167, 242, 149, 302, 297, 157, 240, 300, 119, 186, 305, 104, 164, 137, 138, 294, 168, 319, 309, 205, 241, 116, 173, 130, 241, 295, 268, 202, 177, 303, 212, 171, 207, 219, 318, 110, 313, 217, 277, 222, 281, 102, 185, 267, 262, 254, 202, 227, 213, 155, 156, 216, 298, 173, 155, 146, 119, 202, 209, 149, 129, 238, 311, 315, 305, 285, 197, 317, 171, 268, 220, 182, 190, 194, 225, 187, 285, 165, 245, 146, 160, 149, 235, 135, 266, 262, 114, 171, 201, 185, 309, 108, 282, 145, 148, 295, 122, 311, 156],
  "d": [128, 247]}
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
body 0 '.X + .a' '{"n_predict": 3}'
send 0
body 1 '.X + .b' '{"n_predict": 3}'
send 1
body 2 '.X + .c' '{"n_predict": 3}'
send 2
body 3 '.X + .c[0:2] + .d' '{"n_predict": 3}'
send 3

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

compare 0 0 12 200
compare 1 8 5 200
compare 2 8 600 200
compare 3 9 3 200

if [ $shown = 1 ]; then echo 'THE FAULT SHOWS'; exit 1; fi
echo 'the fault does not show'
