package database

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"

	"opportunity.internal/pkg/telemetry"
)

// tracing creates a client span for each statement of a recorded request, with its operation and
// its table but without its text. The maintained plugins of gorm record the text, name no table, or
// link a ClickHouse driver into every binary.
type tracing struct {
	tracer     trace.Tracer
	attributes []attribute.KeyValue // of every span
}

func newTracing(tracer trace.Tracer, dialect string, u *url.URL) tracing {
	if dialect == SQLite {
		return tracing{tracer, []attribute.KeyValue{semconv.DBSystemNameSQLite}}
	}
	attributes := []attribute.KeyValue{semconv.DBSystemNamePostgreSQL,
		semconv.DBNamespace(strings.TrimPrefix(u.Path, "/"))}
	return tracing{tracer, append(attributes, telemetry.Server(u)...)}
}

const spanKey = "opportunity:span"

// observe calls before and after around every statement of db.
func observe(db *gorm.DB, name string, before, after func(*gorm.DB)) error {
	cb := db.Callback()
	return register(name, before, after, cb.Create(), cb.Query(), cb.Update(), cb.Delete(), cb.Row(), cb.Raw())
}

// register adds callbacks to gorm's processors, whose types are not exported.
func register[P interface {
	Before(string) C
	After(string) C
}, C interface {
	Register(string, func(*gorm.DB)) error
}](name string, before, after func(*gorm.DB), processors ...P) (err error) {
	for _, p := range processors {
		err = errors.Join(err, p.Before("*").Register(name+":before", before),
			p.After("*").Register(name+":after", after))
	}
	return err
}

func (t tracing) before(tx *gorm.DB) {
	ctx, span := telemetry.StartSpan(tx.Statement.Context, t.tracer, "", t.attributes...)
	if span.IsRecording() {
		tx.Statement.Context = ctx
		tx.InstanceSet(spanKey, span)
	}
}

func after(tx *gorm.DB) {
	v, ok := tx.InstanceGet(spanKey)
	if !ok {
		return
	}
	span := v.(trace.Span)
	operation, table := describe(tx.Statement.SQL.String())
	span.SetName(strings.TrimSpace(operation + " " + table))
	span.SetAttributes(semconv.DBOperationName(operation))
	if table != "" {
		span.SetAttributes(semconv.DBCollectionName(table))
	}
	err := tx.Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = nil
	}
	telemetry.End(span, err)
}

// inStatement matches the places of a statement that name a table. A name before a parenthesis is a
// function, except after INTO.
var inStatement = regexp.MustCompile("(?i)\\b(?:INTO|UPDATE|FROM|TABLE)\\s+[\"`]?([a-z_][a-z0-9_.]*)[\"`]?\\s*(\\(?)")

// describe returns the operation of a statement and the first table that it names, or "" if it
// names none.
func describe(statement string) (operation, table string) {
	if words := strings.Fields(statement); len(words) > 0 {
		operation = strings.ToUpper(words[0])
	}
	for _, found := range inStatement.FindAllStringSubmatch(statement, -1) {
		if found[2] == "" || strings.HasPrefix(strings.ToUpper(found[0]), "INTO") {
			return operation, found[1]
		}
	}
	return operation, ""
}
