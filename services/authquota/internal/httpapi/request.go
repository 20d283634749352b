package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
)

// Limits of the operators' lists.
const (
	MaxPage     = api.MaxOperatorPageSize
	MaxFragment = 254 // of an address or a name
)

// Page parses after, an ID that known accepts, and limit.
func Page(query params.Values, known func(string) error) (account.Page, error) {
	limit, err := query.Integer("limit", 1, MaxPage, MaxPage)
	if after, given := query["after"]; given && err == nil {
		if known(after) != nil {
			err = problem.Invalid("after", "must be the ID of the last entry of the previous page")
		}
		return account.Page{After: after, Limit: limit}, err
	}
	return account.Page{Limit: limit}, err
}

// maxBody is far above the size of these requests, except usage batches.
const maxBody = 64 << 10

// unknownField extracts the field name from the error of encoding/json, which has no type. Longer
// names are not repeated to the caller, because they may be a misplaced key.
var unknownField = regexp.MustCompile(`^json: unknown field "([A-Za-z]{1,32})"$`)

// Decode reads the request body into out and rejects unknown fields. An absent body leaves out
// unchanged.
func Decode(g *gin.Context, out any) error { return DecodeUpTo(g, out, maxBody) }

// DecodeUpTo is Decode for bodies of up to most bytes.
func DecodeUpTo(g *gin.Context, out any, most int64) error {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return err
	}
	err := web.Decode(g, out, most)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	if refused := new(problem.Error); errors.As(err, &refused) {
		return err
	}
	if errors.Is(err, web.ErrTrailingData) {
		return problem.New(problem.InvalidParameter, "The body must be one JSON object and nothing after it.")
	}
	// The error of package time for JSON other than a string has no type.
	if wrong := new(time.ParseError); errors.As(err, &wrong) || strings.HasPrefix(err.Error(), "Time.UnmarshalJSON") {
		return problem.New(problem.InvalidParameter, "Times must look like 2027-01-31T00:00:00Z.")
	}
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) && wrong.Field != "" {
		return problem.Invalid(wrong.Field, "must be a "+wrong.Type.String()+", not a "+wrong.Value)
	}
	if name := unknownField.FindStringSubmatch(err.Error()); name != nil {
		return problem.Invalid(name[1], "is unknown")
	}
	return problem.New(problem.InvalidParameter, "The body must be one JSON object of at most %d bytes.", most).Because(err)
}
