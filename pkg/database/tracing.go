package database

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"
)

// tracing is a gorm plugin that creates a child span for each statement, with its table and operation but not its values. The maintained
// gorm plugin is not used because it links a ClickHouse driver into every binary.
type tracing struct {
	tracer  trace.Tracer
	dialect string
}

const spanKey = "opportunity:span"

func (tracing) Name() string { return "opportunity:tracing" }

func (t tracing) Initialize(db *gorm.DB) error {
	before := func(operation string) func(*gorm.DB) {
		return func(tx *gorm.DB) {
			if !trace.SpanContextFromContext(tx.Statement.Context).IsValid() {
				return // background loops are not traced
			}
			ctx, span := t.tracer.Start(tx.Statement.Context, t.dialect+" "+operation, trace.WithSpanKind(trace.SpanKindClient),
				trace.WithAttributes(attribute.String("db.system.name", t.dialect), attribute.String("db.operation.name", operation)))
			tx.Statement.Context = ctx
			tx.InstanceSet(spanKey, span)
		}
	}
	after := func(tx *gorm.DB) {
		v, ok := tx.InstanceGet(spanKey)
		if !ok {
			return
		}
		span := v.(trace.Span)
		span.SetAttributes(attribute.String("db.collection.name", tx.Statement.Table))
		if tx.Error != nil && !errors.Is(tx.Error, gorm.ErrRecordNotFound) {
			span.SetStatus(codes.Error, "statement failed")
		}
		span.End()
	}
	cb := db.Callback()
	return errors.Join(
		cb.Create().Before("*").Register("opportunity:before_create", before("create")),
		cb.Create().After("*").Register("opportunity:after_create", after),
		cb.Query().Before("*").Register("opportunity:before_query", before("query")),
		cb.Query().After("*").Register("opportunity:after_query", after),
		cb.Update().Before("*").Register("opportunity:before_update", before("update")),
		cb.Update().After("*").Register("opportunity:after_update", after),
		cb.Delete().Before("*").Register("opportunity:before_delete", before("delete")),
		cb.Delete().After("*").Register("opportunity:after_delete", after),
		cb.Row().Before("*").Register("opportunity:before_row", before("row")),
		cb.Row().After("*").Register("opportunity:after_row", after),
		cb.Raw().Before("*").Register("opportunity:before_raw", before("raw")),
		cb.Raw().After("*").Register("opportunity:after_raw", after),
	)
}
