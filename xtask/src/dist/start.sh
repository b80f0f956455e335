# Functions for the other scripts.
fail() {
    echo "$*" >&2
    exit 1
}

# The capabilities of this unit.
capabilities() {
    sed -n 's/^CapabilityBoundingSet=//p' "$1" | tr '[:upper:]' '[:lower:]'
}

# Waits until netto, which process $daemon runs and which writes to $said, answers; leaves its address.
answers() {
    tries=0 address=
    until [ -n "$address" ] && [ "$(curl -s "$address/readyz")" = ready ]; do
        kill -0 $daemon 2>/dev/null || fail "netto ended: $(cat "$said")"
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "netto is not ready: $(cat "$said")"
        sleep 0.2
        address=$(sed -n 's/.*dashboard at \(http:[^ ]*[0-9]\).*/\1/p' "$said" | head -n 1)
    done
    curl -s "$address/metrics" | grep -q '^netto_network_cpu_seconds_total' || fail "no metrics"
    curl -s "$address/" | grep -q '<script' || fail "no page"
}

# This process may have these capabilities and no others.
has_exactly() {
    bounding=$(sed -n 's/^CapBnd:[[:space:]]*//p' "/proc/$1/status")
    asked=$(capsh --decode="$bounding" | sed 's/.*=//' | tr ',' '\n' | sort)
    [ "$asked" = "$(printf '%s\n' $2 | sort)" ] || fail "capabilities: $asked"
}

# Starts netto in a root by this line, as another user than root with exactly the capabilities of this unit; ends it when
# it has answered.
start() {
    root=$1 unit=$2 line=$3
    allowed=$(capabilities "$unit")
    kept=$(echo "$allowed" | tr ' ' ',')
    dropped=
    for one in $(capsh --print | sed -n 's/^Bounding set =//p' | tr ',' ' '); do
        case " $allowed " in
        *" $one "*) ;;
        *) dropped=$dropped,$one ;;
        esac
    done
    said=$(mktemp)
    # Not a shell of the root, which an image does not have.
    NETTO_PORT=0 capsh --chroot="$root" --drop="${dropped#,}" --keep=1 --uid=65534 \
        --inh="$kept" --addamb="$kept" --no-new-privs \
        --shell="${line%% *}" -- ${line#* } >"$said" 2>&1 &
    daemon=$!
    trap 'kill $daemon 2>/dev/null || true; rm -f "$said"' EXIT
    answers
    has_exactly $daemon "$allowed"
    grep -q '^Uid:[[:space:]]*65534[[:space:]]' /proc/$daemon/status || fail "it is another user"
    echo "started by \`$line\` with $allowed (CapBnd $bounding): ready"
    kill -TERM $daemon
    wait $daemon || fail "netto ended with $?: $(cat "$said")"
    rm -f "$said"
    trap - EXIT
}
