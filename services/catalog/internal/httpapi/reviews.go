package httpapi

import (
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

// maxWithin is the longest value of the parameter within.
const maxWithin = 365 * 24 * time.Hour

// due lists the records that are due for a factual review now or within the requested time.
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
	list, err := a.Desk.Due(g.Request.Context(), a.Now().Add(within))
	return web.Reply{JSON: list}, err
}

// within reads the parameter within, a duration such as 7d or 36h. It returns 0 if the request does
// not have it.
func within(values params.Values) (time.Duration, error) {
	text, given := values["within"]
	if !given {
		return 0, nil
	}
	d, err := api.ParseDuration(text)
	if err != nil || d > maxWithin {
		return 0, problem.Invalid("within", "must be a duration such as 7d or 36h, at most 365d")
	}
	return d, nil
}
