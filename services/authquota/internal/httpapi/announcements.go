package httpapi

import (
	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/notices"
)

// announce creates an announcement or, if it exists, returns its progress. With dryRun it creates
// nothing.
func (a API) announce(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	var body api.AnnouncementRequest
	if err := Decode(g, &body); err != nil {
		return web.Reply{}, err
	}
	want, err := notices.Announcement{ID: body.ID, Kind: notices.AnnouncementKind(body.Kind), Subject: body.Subject, Text: body.Text}.Check()
	if err != nil {
		return web.Reply{}, err
	}
	letter, err := a.Notices.Preview(want)
	if err != nil {
		return web.Reply{}, err
	}
	var p notices.Progress
	if body.DryRun {
		p, err = a.Notices.Progress(g.Request.Context(), want)
	} else {
		p, err = a.Notices.Announce(g.Request.Context(), actor, want)
	}
	return web.Reply{JSON: api.Announcement{
		ID: want.ID, Kind: string(want.Kind), Subject: letter.Subject, Text: letter.Text,
		Recipients: p.Recipients, Posted: p.Posted, CreatedAt: p.CreatedAt, FinishedAt: p.FinishedAt,
	}}, err
}
