#!/bin/bash
# Rows are "split,offset" words; the state is "checkpoint:rows;" for each pending checkpoint, in base64.
cd "$SINKPROOF_SCRATCH" || exit 1
me=$SINKPROOF_SUBTASK rows="" mode=$1
declare -A pending
print_rows() { [[ -z ${1// } ]] || printf '[%s]\n' $1; }
publish() {
    if [[ $mode == wrong ]]; then
        [[ -e done-$1-$2 ]] && return
        print_rows "$3" >> "out-$1" || exit 1
        : > "done-$1-$2" || exit 1
    else
        print_rows "$3" > "temp-$me-$SINKPROOF_GENERATION" || exit 1
        mv -f "temp-$me-$SINKPROOF_GENERATION" "out-$1-$2" || exit 1
    fi
}
while read -r line; do
    state=""
    [[ $line =~ \"checkpoint_id\":\ ([0-9]+) ]] && id=${BASH_REMATCH[1]}
    case $line in
    *'"call": "open"'*)
        while read -r old text; do
            [[ -z $text ]] && continue
            IFS=';' read -ra parts <<< "$(base64 -d <<< "$text")"
            for part in "${parts[@]}"; do publish "$old" "${part%%:*}" "${part#*:}"; done
        done < <(grep -o '"subtask": [0-9]*, "state": "[^"]*"' <<< "$line" | sed 's/[^0-9]*\([0-9]*\), "state": "\(.*\)"/\1 \2/')
        ;;
    *'"call": "write"'*)
        rows+=" $(grep -o '"split": [0-9]*, "offset": [0-9]*' <<< "$line" | sed 's/"split": //; s/ "offset": //' | tr '\n' ' ')"
        ;;
    *'"call": "snapshot"'*)
        pending[$id]=$rows rows=""
        for each in "${!pending[@]}"; do state+="$each:${pending[$each]};"; done
        state=", \"state\": \"$(base64 -w0 <<< "$state")\""
        ;;
    *'"call": "notify_complete"'*)
        for each in "${!pending[@]}"; do
            if ((each <= id)); then publish "$me" "$each" "${pending[$each]}"; unset "pending[$each]"; fi
        done
        ;;
    esac
    printf '{"ok": true%s}\n' "$state"
done
