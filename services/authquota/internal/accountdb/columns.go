package accountdb

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"gorm.io/gorm/schema"

	"opportunity.internal/pkg/database"
)

// column stores a field of a type that the features share with their pages, tagged
// serializer:column: a time as microseconds since 1970 UTC, a duration as microseconds, and an
// empty text or zero duration as NULL. It applies to rows that gorm writes and reads; a map of
// updates has the stored values.
type column struct{}

func init() { schema.RegisterSerializer("column", column{}) }

// Value implements schema.SerializerValuerInterface.
func (column) Value(_ context.Context, field *schema.Field, _ reflect.Value, value any) (any, error) {
	switch v := value.(type) {
	case time.Time:
		return database.Micros(v), nil
	case *time.Time:
		if v == nil {
			return nil, nil // NULL
		}
		return database.Micros(*v), nil
	case time.Duration:
		if v == 0 {
			return nil, nil // NULL
		}
		return v.Microseconds(), nil
	case string:
		if v == "" {
			return nil, nil // NULL
		}
		return v, nil
	}
	return nil, fmt.Errorf("field %s: %T cannot be stored as a column", field.Name, value)
}

// Scan implements schema.SerializerInterface.
func (column) Scan(ctx context.Context, field *schema.Field, row reflect.Value, stored any) error {
	us, whole := stored.(int64)
	switch {
	case whole && field.FieldType == reflect.TypeFor[time.Duration]():
		stored = int64(time.Duration(us) * time.Microsecond)
	case whole:
		stored = database.FromMicros(us)
	}
	return field.Set(ctx, row, stored)
}
