package pages

import (
	"embed"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/problem"
)

//go:embed static
var statFS embed.FS

// asset returns the path of a static file.
func (s *Site) asset(name string) (string, error) {
	served, err := s.files.Name(name)
	return home + "/static/" + served, err
}

func (s *Site) static(g *gin.Context) {
	if !s.files.Serve(g.Writer, g.Request, g.Param("file")) {
		s.page(open, func(*Site, *visit) (view, error) {
			return view{}, problem.New(problem.NotFound, "This file does not exist.")
		})(g)
	}
}
