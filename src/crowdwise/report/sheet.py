"""The page's style sheet: system fonts, light and dark, phone and paper."""

from __future__ import annotations

from crowdwise.report.markup import PAINT

__all__ = ["STYLE"]

# Lighter hues of the same families: they keep their contrast on a dark background.
DARK = {
    "paper": "#1a2027",
    "ink": "#e6eaef",
    "muted": "#a3adb9",
    "rule": "#3a434e",
    "good": "#56b4e9",
    "bad": "#f0803c",
    "weak": "#f0c04a",
    "unsure": "#8791a0",
    # Tints of the heat map stay deep instead, because numbers are written on them in light ink.
    "right": "#1f6fa8",
    "wrong": "#b8561a",
    "bright": "#ffffff",
}


def _variables(paint: dict[str, str], ground: str) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in paint.items()) + f"--ground:{ground};"


STYLE = (
    f":root{{color-scheme:light dark;{_variables(PAINT, '#f4f6f8')}}}\n"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK, '#11151a')}}}}}\n"
    + "".join(f".{name}{{fill:var(--{name})}}.{name}-line{{stroke:var(--{name})}}" for name in PAINT)
    + """
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:1080px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.7rem;line-height:1.2;margin:8px 0 4px;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:40px 0 12px}
p{margin:6px 0;max-width:72ch}
.lead,.note,caption{color:var(--muted)}
.note,caption{font-size:.875rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:12px;margin:20px 0;padding:0}
.tiles div,.card{background:var(--paper);border:1px solid var(--rule);border-radius:8px}
.tiles div{padding:12px 14px}
.tiles dt{font-size:.8125rem;color:var(--muted)}
.tiles dd{margin:0;font-size:1.35rem;font-variant-numeric:tabular-nums}
.tiles small{display:block;font-size:.8125rem;color:var(--muted);line-height:1.35}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:16px;align-items:start}
.card{margin:0 0 16px;padding:8px;overflow-x:auto}
.pair .card:last-child{margin:0}
.card svg{display:block;width:100%;max-width:760px;height:auto;margin:0 auto}
.broad svg{min-width:520px}
.narrow svg{max-width:560px}
figcaption{padding:4px 8px 8px;font-size:.875rem;color:var(--muted)}
.look{background:var(--paper);border:1px solid var(--rule);border-left:4px solid var(--bad);border-radius:8px;
padding:12px 16px 12px 36px;margin:0}
.look.calm{border-left-color:var(--good)}
.look li{margin:4px 0;overflow-wrap:anywhere}
.wide{overflow-x:auto;background:var(--paper);border:1px solid var(--rule);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:.9375rem}
caption{text-align:left;padding:10px 12px}
th,td{padding:6px 12px;text-align:left;vertical-align:top;border-top:1px solid var(--rule);overflow-wrap:anywhere}
th{font-weight:600}
thead th{overflow-wrap:normal;vertical-align:bottom;color:var(--muted);font-size:.8125rem}
tbody th{min-width:10.5em}
td{min-width:8.5em}
td.number{min-width:0}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
thead .number{white-space:normal}
.mark{font-weight:600}
.mark::before{content:"";display:inline-block;width:.6em;height:.6em;margin-right:.45em;background:currentColor}
.mark-bad::before{background:var(--bad)}
.mark-weak::before{background:var(--weak)}
details{margin-top:16px}
summary{cursor:pointer}
@media print{body{background:none;font-size:11pt}main{max-width:none;padding:0}h2{break-after:avoid}
.card,.tiles div,tr{break-inside:avoid}.wide,.card{overflow:visible}*{print-color-adjust:exact}}
"""
)
