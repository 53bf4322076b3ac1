"""Templates of a shell script; `@NAME@` is a placeholder."""

SETTINGS = """\
set -u
TOLERANCE=${TOLERANCE:-@TOLERANCE@}   # largest difference of log-probabilities that counts as rounding
SEED=${SEED:-0}             # another number renames all tokens: use it if the server has seen this case before
FIRST=${FIRST:-101} SIZE=219          # tokens in use: FIRST .. FIRST+SIZE-1
WITHIN=${WITHIN:-60}        # time limit of a request [seconds]
DELAY=${DELAY:-0.05}        # assumed duration of a server iteration [seconds], between concurrent requests
URL=${URL:-http://127.0.0.1:8080}
"""
FOLDER = """\
for tool in curl jq; do
  command -v $tool >/dev/null || { echo "$tool is needed" >&2; exit 2; }
done
DIR=$(mktemp -d) || exit 2
trap 'rm -rf "$DIR"' EXIT
trap 'exit 130' INT TERM HUP
alive() { [ "$(curl -s -m 5 -o /dev/null -w '%{http_code}' "$URL/health")" = 200 ]; }
alive || { echo "no llama-server answers at $URL" >&2; exit 2; }
"""
ASK = """\
body() {  # body NUMBER PROMPT FIELDS: prepare a request; its prompt is a sum of words
  jq -c --argjson fields "$3" '{prompt: ('"$2"')} + $fields + @GREEDY@' "$DIR/words" >"$DIR/$1.body"
}
send() {  # send NUMBER: send a request; keep the answer and its HTTP status (000 = no answer)
  curl -s -m "$WITHIN" -H 'Content-Type: application/json' -d @"$DIR/$1.body" \\
    -o "$DIR/$1.reply" -w '%{http_code}' "$URL/completion" >"$DIR/$1.status"
  [ -s "$DIR/$1.reply" ] || echo null >"$DIR/$1.reply"
}
hear() {  # hear NUMBER CHANGE: replace words by the generated tokens ($t, a list per completion)
  jq -c --slurpfile reply "$DIR/$1.reply" '($reply[0] | if type == "array" then . else [.] end |
    map(.tokens? // [])) as $t | '"$2" "$DIR/words" >"$DIR/new" && mv "$DIR/new" "$DIR/words"
}
"""
HANG_UP = """\
hang_up() {  # hang_up NUMBER TOKENS: request a stream, and disconnect after so many tokens
  jq -c '. + {stream: true}' "$DIR/$1.body" >"$DIR/stream"
  if [ "$2" = 0 ]; then
    curl -sN -m "$WITHIN" -d @"$DIR/stream" "$URL/completion" >/dev/null &
    sleep "$DELAY"; kill $! 2>/dev/null; wait $! 2>/dev/null
    echo '{"tokens": []}' >"$DIR/$1.reply"
  else
    curl -sN -m "$WITHIN" -d @"$DIR/stream" "$URL/completion" | sed -n 's/^data: //p' | head -n "$2" |
      jq -cs '{tokens: (map(.tokens? // []) | add)}' >"$DIR/$1.reply"
  fi
  echo cancelled >"$DIR/$1.status"
  sleep 0.3
}
"""
SLOT = """\
slot() {  # slot ID ACTION FILE
  code=$(curl -s -m "$WITHIN" -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' \\
    -d "{\\"filename\\": \\"$3\\"}" "$URL/slots/$1?action=$2")
  [ "$code" = 200 ] || echo "slot $1, $2: HTTP $code (the server needs --slot-save-path)"
}
"""
LOADED = """\
[ "$(curl -s -m 5 "$URL/lora-adapters" | jq length)" = {0} ] || {{ echo "the server needs {0} adapters" >&2; exit 2; }}
"""
COMPARE = """\
echo 'request  cache_n (expected)  evaluated (expected)  answer'
shown=0
compare() {  # compare NUMBER CACHE_N EVALUATED STATUS: send the request cold, print both results and the expectation
  was=$(cat "$DIR/$1.status")
  [ "$was" = cancelled ] && { echo "$1  (disconnected)"; return; }
  cp "$DIR/$1.reply" "$DIR/warm"
  jq -c '{@KEPT@} + @COLD@ | with_entries(select(.value != null))' "$DIR/$1.body" >"$DIR/cold.body"
  send cold
  if [ "$(cat "$DIR/cold.status")" = 000 ] && ! alive; then
    echo "$1  - ($2)  - ($3)  the server has ended"; shown=1
    return
  fi
  jq -nr --arg n "$1" --arg expected "$2 $3 $4" --argjson tolerance "$TOLERANCE" --arg was "$was" \\
    --arg is "$(cat "$DIR/cold.status")" --slurpfile warm "$DIR/warm" --slurpfile cold "$DIR/cold.reply" '
    def places: [.completion_probabilities[]? | (.top_logprobs // .top_probs // [])
                 | map({(.id | tostring): .logprob}) | add // {}];
    def versus($b): . as $a | [$a.tokens, $b.tokens] as [$s, $t] | ($a | places) as $p | ($b | places) as $q
      | ([range(0; [$s, $t | length] | min) | select($s[.] != $t[.])][0]) as $at
      | [range(0; [$p, $q | length] + [($at // 1000000) + 1] | min) as $i
         | $p[$i] | keys[] | select($q[$i][.]) | $p[$i][.] - $q[$i][.] | fabs] as $gaps
      | ($gaps | max) as $far
      | ($at == null or ([($q[$at] // {} | keys[]) as $one | $p[$at] // {} | has($one)] | any)) as $near
      | if $far != null and $far > $tolerance then "DIFFERS from a cold run: log-probabilities by \\($far)"
          + (if $at != null then ", token \\($at) is \\($s[$at]), not \\($t[$at])" else "" end)
        elif $at != null and ($near | not) then "DIFFERS from a cold run: token \\($at) is \\($s[$at]), not \\($t[$at])"
        elif ($s | length) != ($t | length) then "DIFFERS from a cold run: \\($s | length) tokens, not \\($t | length)"
        else "same as cold" end;
    ($expected | split(" ")) as [$cached, $evaluated, $status]
    | ($warm[0] | if type == "array" then . else [.] end) as $all
    | (if $was == $is and $is == "200" then ([$all[] | versus($cold[0])] | (map(select(startswith("DIFF"))) + .)[0])
       elif $is != "200" then "cold: HTTP \\($is), warm: \\($was)"
       elif $was == "000" then "DIFFERS from a cold run: NO ANSWER"
       else "DIFFERS from a cold run: HTTP \\($was) \\($warm[0].error.message? // "")" end) as $said
    | "\\($n)  \\($all[0].timings.cache_n? // "-") (\\($cached))  "
      + "\\($all[0].timings.prompt_n? // "-") (\\($evaluated))  \\($said)"
      + (if $was == "200" then "  tokens: \\($all[0].tokens | map(tostring) | .[:8] | join(" "))" else "" end)
  ' >"$DIR/line" || { echo "$1  an answer that cannot be read"; return; }
  cat "$DIR/line"
  grep -q DIFFERS "$DIR/line" && shown=1
}
"""
END = """\
if [ $shown = 1 ]; then echo 'THE FAULT SHOWS'; exit 1; fi
echo 'the fault does not show'
"""
REUSE = """\
REFERENCE=@REFERENCE@ MARK=@MARK@   # the rules without the loss, and a mark of their numbers
[ $shown = 1 ] && echo 'THE FAULT SHOWS'
unclear=0
reuse() {  # reuse NUMBER LOSSY KEPT REUSABLE: compare reuse with that of the loss and of the reference
  reused=$(jq -r 'if type == "array" then .[0] else . end | .timings.cache_n? // "-"' "$DIR/$1.reply") || reused=-
  count="$reused of $4 tokens reused in request $1"
  if [ "$(cat "$DIR/$1.status")" != 200 ] || [ "$reused" = - ]; then
    echo "UNDECIDED: request $1 does not report how many tokens it reused"; unclear=1
  elif [ "$reused" -eq "$2" ]; then
    echo "THE LOSS SHOWS: $count; with $REFERENCE $3$MARK"; shown=1
    jq -r --argjson lost $(($3 - $2)) 'if type == "array" then .[0] else . end | .timings
      | select((.prompt_ms // 0) > 0 and (.prompt_n // 0) > 0)
      | "  \\($lost) tokens evaluated again: about \\($lost / .prompt_n * .prompt_ms | round / 1000) s, at the "
        + "\\(.prompt_n / .prompt_ms * 1000 | round) tokens/s of this prompt"' "$DIR/$1.reply"
  elif [ "$reused" -gt "$3" ]; then echo "the loss does not show: $count; with $REFERENCE $3$MARK"
  elif [ "$reused" -eq "$3" ]; then echo "the loss does not show: $count, as with $REFERENCE$MARK"
  else
    echo "UNDECIDED: $count; $2 with the loss, with $REFERENCE $3$MARK"; unclear=1
  fi
}
"""
END_OF_LOSS = """\
[ $shown = 1 ] && exit 1
[ $unclear = 1 ] && exit 3
exit 0
"""
