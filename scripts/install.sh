#!/bin/sh
# install.sh EXTRAS: put the checkout with these extras into .venv, one short line per package, so that a long
# installation shows that it moves. Ends with pip's own status, which a plain pipe would hide.
progress() {
    while IFS= read -r line; do
        case "$line" in
            Collecting*) set -- $line; printf '    %s\n' "$2" ;;
            Successfully*|*ERROR*|*rror:*) printf '    %s\n' "$line" ;;
        esac
    done
}
exec 4>&1
status=$({ { .venv/bin/python -m pip install --disable-pip-version-check -e ".[$1]" 2>&1; echo $? >&3; } | progress >&4; } 3>&1)
exit "$status"
