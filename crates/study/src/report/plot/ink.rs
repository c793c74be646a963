//! The colours of plots.
//!
//! Plots are drawn in the colours of a light page, which is also what paper wants. On a dark screen
//! a style sheet turns each colour into its counterpart: the drawing library writes a colour as an
//! attribute, and a rule for that attribute wins over it. So every ink has a colour of its own,
//! also where two would look alike.

use plotters::style::RGBColor;

/// What is drawn, and so in which colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Axes and ticks.
    Axis,
    /// Lines behind everything.
    Grid,
    /// Words and numbers.
    Text,
    /// The streaming limit, dashed.
    Limit,
    /// What would be ideal; dashed finely.
    Ideal,
    /// What a model says; dashed finely.
    Model,
    /// What is out of the ordinary.
    Alarm,
    /// One of several contestants; numbers beyond the last colour begin anew.
    Series(usize),
    /// A cell of a heat map, from 0 (little) to [`HEAT_STEPS`] − 1 (much).
    Heat(usize),
    /// Words on a cell of the lower half of the heat map.
    OnLow,
    /// Words on a cell of the upper half of the heat map.
    OnHigh,
}

/// Colours for contestants: told apart also by those who see no red or no green.
pub(crate) const SERIES_INKS: usize = SERIES.len();

/// Steps of the heat map.
pub(crate) const HEAT_STEPS: usize = HEAT.len();

/// On a light page, and on a dark one.
type Pair = (u32, u32);

const AXIS: Pair = (0x6E_77_81, 0x76_83_90);
const GRID: Pair = (0xE4_E8_EC, 0x2A_31_3A);
const TEXT: Pair = (0x24_29_2F, 0xC9_D1_D9);
const LIMIT: Pair = (0x57_60_6A, 0x9D_A7_B3);
const IDEAL: Pair = (0x8C_95_9F, 0x6E_76_81);
const MODEL: Pair = (0x4C_51_58, 0xAD_B6_C0);
const ALARM: Pair = (0xCF_22_2E, 0xFF_7B_72);
const SERIES: [Pair; 8] = [
    (0x00_60_A8, 0x6C_B6_FF),
    (0xC2_41_0C, 0xFF_9B_6A),
    (0x0B_7A_55, 0x4F_D1_A1),
    (0x8E_3A_9D, 0xD9_9B_F0),
    (0x9A_67_00, 0xE3_B3_41),
    (0x0E_74_90, 0x5C_D3_E8),
    (0xA6_1E_4D, 0xFA_8F_B4),
    (0x4B_5B_00, 0xB5_CC_4A),
];
const HEAT: [Pair; 9] = [
    (0xF1_F6_FB, 0x14_20_2E),
    (0xD8_E7_F5, 0x17_2C_43),
    (0xBA_D5_EE, 0x1A_3A_5A),
    (0x94_BF_E4, 0x1E_4A_74),
    (0x69_A5_D6, 0x25_5D_8F),
    (0x45_89_C5, 0x3A_76_AC),
    (0x2B_6D_AE, 0x59_93_C8),
    (0x1A_52_90, 0x82_B3_E0),
    (0x10_39_6B, 0xB4_D6_F7),
];
const ON_LOW: Pair = (0x1B_1F_24, 0xE6_ED_F3);
const ON_HIGH: Pair = (0xFF_FF_FE, 0x0D_11_17);

impl Ink {
    fn pair(self) -> Pair {
        match self {
            Self::Axis => AXIS,
            Self::Grid => GRID,
            Self::Text => TEXT,
            Self::Limit => LIMIT,
            Self::Ideal => IDEAL,
            Self::Model => MODEL,
            Self::Alarm => ALARM,
            Self::Series(index) => SERIES[index % SERIES.len()],
            Self::Heat(step) => HEAT[step.min(HEAT.len() - 1)],
            Self::OnLow => ON_LOW,
            Self::OnHigh => ON_HIGH,
        }
    }

    /// As it is drawn.
    pub(crate) fn colour(self) -> RGBColor {
        let [_, red, green, blue] = self.pair().0.to_be_bytes();
        RGBColor(red, green, blue)
    }
}

/// As the drawing library writes it.
fn hex(colour: u32) -> String {
    format!("#{colour:06X}")
}

/// The rules for a dark screen.
pub(crate) fn dark_rules() -> String {
    let mut rules = String::new();
    for (light, dark) in all() {
        let (light, dark) = (hex(light), hex(dark));
        rules.push_str(&format!(
            ".plot [fill=\"{light}\"]{{fill:{dark}}}.plot [stroke=\"{light}\"]{{stroke:{dark}}}\n"
        ));
    }
    for (index, pair) in SERIES.iter().enumerate() {
        rules.push_str(&format!(".ink{index}{{color:{}}}\n", hex(pair.1)));
    }
    rules.push_str(&format!(".inkl{{color:{}}}\n", hex(LIMIT.1)));
    rules
}

/// The rules for every page: line styles, and the colours of what stands outside of plots.
pub(crate) fn rules() -> String {
    let mut rules = String::new();
    for (ink, dashes) in [(LIMIT, "28 16"), (IDEAL, "8 12"), (MODEL, "16 12")] {
        // crosses and whiskers are too short to be dashed
        let not = super::canvas::NO_CURVES.map(|width| format!(":not([stroke-width=\"{width}\"])"));
        rules.push_str(&format!(
            ".plot polyline[stroke=\"{}\"]{}{{stroke-dasharray:{dashes}}}\n",
            hex(ink.0),
            not.concat()
        ));
    }
    for (index, pair) in SERIES.iter().enumerate() {
        rules.push_str(&format!(".ink{index}{{color:{}}}\n", hex(pair.0)));
    }
    rules.push_str(&format!(".inkl{{color:{}}}\n", hex(LIMIT.0)));
    rules
}

fn all() -> impl Iterator<Item = Pair> {
    [
        AXIS, GRID, TEXT, LIMIT, IDEAL, MODEL, ALARM, ON_LOW, ON_HIGH,
    ]
    .into_iter()
    .chain(SERIES)
    .chain(HEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_inks_share_a_colour_since_rules_tell_them_apart_by_it() {
        let mut colours: Vec<u32> = all().map(|pair| pair.0).collect();
        let inks = colours.len();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), inks);
    }

    /// Relative luminance (WCAG 2).
    fn luminance(colour: u32) -> f64 {
        let [_, red, green, blue] = colour.to_be_bytes();
        let linear = |part: u8| match f64::from(part) / 255.0 {
            part if part <= 0.040_45 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(one: u32, other: u32) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn words_and_contestants_stand_out_on_both_pages() {
        let (white, black) = (0xFF_FF_FF, 0x0D_11_17);
        for (light, dark) in [TEXT, LIMIT, ALARM].into_iter().chain(SERIES) {
            assert!(contrast(light, white) >= 4.5, "{} on white", hex(light));
            assert!(contrast(dark, black) >= 4.5, "{} on black", hex(dark));
        }
        for (step, (light, dark)) in HEAT.into_iter().enumerate() {
            let on = if step * 2 < HEAT.len() {
                ON_LOW
            } else {
                ON_HIGH
            };
            assert!(contrast(light, on.0) >= 3.0, "step {step}, light");
            assert!(contrast(dark, on.1) >= 3.0, "step {step}, dark");
        }
    }
}
