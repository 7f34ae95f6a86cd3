"""The page's style sheet: system fonts, light and dark, phone and paper."""

from __future__ import annotations

from crowdwise.report.markup import PAINT

__all__ = ["REPORT_STYLE", "STYLE"]

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

# What the report adds: contents, tools of tables, small multiples, explanations.
REPORT_STYLE = (
    STYLE
    + "".join(f".{name}-bar b,.{name}-bar i{{background:var(--{name})}}" for name in ("good", "bad", "weak", "unsure"))
    + """
h3{font-size:1.02rem;margin:24px 0 8px}
section{scroll-margin-top:12px}
section>.pair{margin:12px 0}
.pair th,.pair td{padding:5px 8px;min-width:0}
.pair tbody th{min-width:5em}
.skip{position:absolute;left:-999px}
.skip:focus{left:8px;top:8px;padding:8px 12px;background:var(--paper);color:var(--ink);z-index:1}
nav ol{display:flex;flex-wrap:wrap;gap:4px 18px;margin:12px 0 0;padding:0;list-style-position:inside;font-size:.9375rem}
a{color:var(--good)}
code{font-size:.875em;overflow-wrap:anywhere}
:focus-visible{outline:3px solid var(--weak);outline-offset:2px}
.tools{display:flex;flex-wrap:wrap;align-items:center;gap:8px 12px;margin:16px 0 8px}
.tools label{font-size:.9375rem}
input,button{font:inherit;color:var(--ink);background:var(--paper);border:1px solid var(--muted);border-radius:6px;
padding:4px 10px;min-height:34px}
input{min-width:min(100%,260px)}
button{cursor:pointer}
button:disabled{cursor:default;opacity:.45}
.pages{justify-content:flex-end;margin:8px 0 0}
thead button{border:0;background:none;padding:2px 0;min-height:0;font-weight:600;font-size:.8125rem;
color:var(--muted);text-align:inherit}
thead button::after{content:"\\a0\\2195";opacity:.6}
[aria-sort=ascending] button::after{content:"\\a0\\2191";opacity:1}
[aria-sort=descending] button::after{content:"\\a0\\2193";opacity:1}
.why{border:0;background:none;padding:0 4px;min-height:26px;color:var(--good);text-decoration:underline;white-space:nowrap}
.detail td{background:var(--ground)}
.explanation{width:auto;min-width:min(100%,560px)}
.explanation th,.explanation td{border:0;padding:2px 10px;min-width:0}
.explanation caption{padding:4px 10px}
.total{font-weight:600}
.track{width:240px}
.track div,.span{position:relative;display:block;height:12px}
.track div{background:linear-gradient(var(--muted),var(--muted)) center/1px 100% no-repeat}
.track span{position:absolute;top:1px;bottom:1px;display:block}
.for{background:var(--good)}
.against{background:var(--bad)}
.span{width:120px;height:10px;margin:3px 0 2px auto;
background:linear-gradient(var(--rule),var(--rule)) center/100% 2px no-repeat}
.span b{position:absolute;top:4px;height:2px}
.span i{position:absolute;top:1px;width:8px;height:8px;margin-left:-4px;border-radius:50%}
td small{display:block;color:var(--muted)}
.many{display:grid;grid-template-columns:repeat(auto-fill,minmax(205px,1fr));gap:12px;margin:12px 0}
.many .card{margin:0}
.mark-unsure::before{background:var(--unsure)}
@media print{nav,.tools,.why,.skip{display:none}.many{grid-template-columns:repeat(4,1fr)}section{break-inside:auto}
thead button::after{content:""}.pair{grid-template-columns:repeat(2,minmax(0,1fr))}h2+p,h2+p+p{break-after:avoid}
table{font-size:9pt}tbody th{min-width:7em;padding:3px 7px}td{min-width:4.5em;padding:3px 7px}.track{width:150px}
.pair table{font-size:7.5pt}.pair th,.pair td,.pair tbody th{min-width:0;padding:2px 4px}}
"""
)
