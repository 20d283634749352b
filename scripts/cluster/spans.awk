# Reads the detailed output of the collector's debug exporter and prints each span of one trace on a line: start, duration, service,
# name, id and parent id.
function clock(at,   part) { split(at, part, ":"); return part[1] * 3600 + part[2] * 60 + part[3] }
function value(line) { sub(/^[^:]*: ?/, "", line); sub(/ +$/, "", line); return line }
/-> service\.name: Str\(/ { service = $0; sub(/.*Str\(/, "", service); sub(/\).*/, "", service) }
/^ +Trace ID +:/ { wanted = (value($0) == trace) }
/^ +Parent ID +:/ { parent = value($0) }
/^ +ID +:/ { id = value($0) }
/^ +Name +:/ { name = value($0) }
/^ +Start time +:/ { start = clock($5) }
/^ +End time +:/ && wanted {
  printf "%.6f\t%6.0f us  %-10s %-52s %s  %s\n", start, (clock($5) - start) * 1e6, service, name, id, parent == "" ? "-" : "child of " parent
}
