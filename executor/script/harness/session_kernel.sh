# Runs code of a session in one shell. For each code come the names of variables to unset after it and the code itself,
# and its status goes back, all on one descriptor and with NUL at the end.
while IFS= read -r -d '' -u "$HAFT_KERNEL_FD" __haft_names && IFS= read -r -d '' -u "$HAFT_KERNEL_FD" __haft_code; do
  eval "$__haft_code"
  __haft_status=$?
  [[ -z $__haft_names ]] || unset $__haft_names
  printf '%s\0' "$__haft_status" >&"$HAFT_KERNEL_FD"
done
