#!/bin/sh
# Turns pip's output into one short line per package, so that a long installation shows that it moves.
while IFS= read -r line; do
    case "$line" in
        Collecting*) set -- $line; printf '    %s\n' "$2" ;;
        Successfully*|*ERROR*|*rror:*) printf '    %s\n' "$line" ;;
    esac
done
