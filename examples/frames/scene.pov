// A planet and its moon. The clock is the frame's number; 24 frames are one turn.
#version 3.7;
global_settings { assumed_gamma 1.0 }

camera { location <0, 2.2, -6> look_at <0, 0.3, 0> angle 42 }
light_source { <-8, 9, -7> color rgb 1.4 }
background { color rgb <0.02, 0.03, 0.08> }

plane {
  y, -1
  pigment { checker color rgb 0.75 color rgb 0.25 }
  finish { reflection 0.15 }
}
sphere {
  <0, 0.3, 0>, 1.1
  pigment { gradient y color_map { [0 color rgb <0.1, 0.3, 0.7>] [1 color rgb <0.8, 0.9, 1>] } scale 2.2 translate -0.8 * y }
  finish { specular 0.5 }
  rotate 15 * clock * y
}
sphere {
  <2, 0.5, 0>, 0.3
  pigment { color rgb <0.9, 0.7, 0.4> }
  finish { specular 0.3 }
  rotate 15 * clock * y
}
