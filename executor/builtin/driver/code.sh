# Runs the code that is in a file, with the input that is in another, and tells its
# status. The code does not get the descriptor for the answer.
result=$HAFT_RESULT
unset HAFT_RESULT HAFT_ARGS
"$BASH" --noprofile --norc .haft/code.sh <.haft/stdin 3>&-
printf '{"exit":%d}' "$?" >&"$result"
