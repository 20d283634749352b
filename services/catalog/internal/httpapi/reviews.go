package httpapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/web"
)

// furthest is how far ahead a curator may look.
const furthest = 365 * 24 * time.Hour

// due lists what is due for a factual review, or will be within the time that is asked for.
func (a API) due(g *gin.Context) (web.Reply, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "within")
	if err != nil {
		return web.Reply{}, err
	}
	within, err := within(values)
	if err != nil {
		return web.Reply{}, err
	}
	web.Extend(g, workTime)
	list, err := a.Reviews.Due(g.Request.Context(), a.Now().Add(within))
	return web.Reply{JSON: list}, err
}

// within reads a number of days (7d) or a duration (36h); 0 where the request names none.
func within(values params.Values) (time.Duration, error) {
	text, given := values["within"]
	if !given {
		return 0, nil
	}
	var d time.Duration
	var err error
	if days, is := strings.CutSuffix(text, "d"); is {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour //nolint:gosec // 16 bits
	} else {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d < 0 || d > furthest {
		return 0, params.Invalid("within", "must be a number of days such as 7d or a duration such as 36h, at most 365d")
	}
	return d, nil
}

// sheet is what a reviewer needs to know of a listing.
func (a API) sheet(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	sheet, err := a.Reviews.Sheet(g.Request.Context(), g.Param("id"))
	return web.Reply{JSON: sheet}, err
}
