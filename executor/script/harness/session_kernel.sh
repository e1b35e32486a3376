# Runs code of a session in one shell: codes come and statuses go on a descriptor, each with NUL at its end.
while IFS= read -r -d '' -u "$HAFT_KERNEL_FD" __haft_code; do
  eval "$__haft_code"
  printf '%s\0' "$?" >&"$HAFT_KERNEL_FD"
done
